"""Folders of transformers with small random weights: one for each kind of model that regard wraps."""

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

TEXTS = ["the cat sat on the mat", "a dog ran over the hill", "where does the cat look now", "blue trees grow"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20}
V = 64
PADS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {"vocab_size": V, "num_key_value_heads": 2, "max_position_embeddings": 64, **PADS, **SMALL}
IMAGES = {"image_size": 12, "patch_size": 4, **SMALL}
LABELS = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}

# By the model_type: the class, its configuration, and its settings.
FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", LLAMA),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": 3, "head_dim": 4}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**LLAMA, "head_dim": 4, "attn_logit_softcapping": 2.0}),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", {
        "vocab_size": V, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_target_positions": 64,
        "max_source_positions": 8, "num_mel_bins": 4, "decoder_start_token_id": 1, "suppress_tokens": None,
        "begin_suppress_tokens": None, **PADS}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {
        "vocab_size": V, "d_model": 16, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
        "eos_token_id": 2, "decoder_start_token_id": 0}),
    "bart": ("BartForConditionalGeneration", "BartConfig", {
        "vocab_size": V, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 64,
        "decoder_start_token_id": 2, "forced_eos_token_id": None, **PADS}),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig",
                {"vocab_size": V, "max_position_embeddings": 64, "type_vocab_size": 1, **PADS, **SMALL}),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", {
        "vocab_size": V, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 20, "max_position_embeddings": 64,
        "pad_token_id": 0}),
    "distilbert-classes": ("DistilBertForSequenceClassification", "DistilBertConfig", {
        "vocab_size": V, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 20, "max_position_embeddings": 64,
        "pad_token_id": 0, **LABELS}),
    "roberta-states": ("RobertaModel", "RobertaConfig",
                       {"vocab_size": V, "max_position_embeddings": 64, "type_vocab_size": 1, **PADS, **SMALL}),
    "deit": ("DeiTForImageClassification", "DeiTConfig", {**IMAGES, **LABELS}),
    "clip": ("CLIPModel", "CLIPConfig", {
        "text_config": {"vocab_size": V, "max_position_embeddings": 16, **PADS, **SMALL},
        "vision_config": IMAGES, "projection_dim": 8}),
}  # fmt: skip
GENERATORS = ("llama", "qwen2", "mistral", "gemma2", "whisper")
TRANSLATORS = ("t5", "bart")
IMAGE_READERS = ("deit", "clip")
TEMPLATES = {"bart": ("<s> $A </s>", None), "t5": ("$A </s>", None)}
TEMPLATES |= dict.fromkeys(GENERATORS, ("<s> $A", None))


def make_folder(name: str, to: Path, **changed: object) -> Path:
    """A folder as `save_pretrained` writes it, with a tokenizer of words. `changed`: settings of its config."""
    import transformers

    model_name, config_name, settings = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_name)(**{**settings, **changed})
    model = getattr(transformers, model_name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform weights
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(to)
    if name not in IMAGE_READERS:
        save_tokenizer(name, to)
    return to


def save_tokenizer(name: str, to: Path) -> None:
    words = dict.fromkeys(word for text in TEXTS for word in text.split())
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", "<unk>", "<mask>", *words])}
    vocabulary |= {f"w{number}": number for number in range(len(vocabulary), V)}
    inner = Tokenizer(models.WordLevel({("▁" + token if token in words or token[0] == "w" else token): number
                                        for token, number in vocabulary.items()}, unk_token="<unk>"))  # fmt: skip
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    single, pair = TEMPLATES.get(name, ("<s> $A </s>", "<s> $A </s> </s> $B </s>"))
    special = [(token, vocabulary[token]) for token in ("<s>", "</s>")]
    inner.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    inner.save(str(to / "tokenizer.json"))
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    names |= {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    (to / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}))
