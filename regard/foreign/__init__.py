"""Model folders of other libraries, read and written: tensor names, configs, tokenizers, small JSON files."""

from typing import Any

from regard.foreign.bert import BERT_FORM
from regard.foreign.elmo import ELMO_FORM
from regard.foreign.form import Form
from regard.foreign.gpt2 import GPT2_FORM
from regard.foreign.marian import MARIAN
from regard.foreign.timm import TIMM
from regard.foreign.timm_vit import TIMM_VIT
from regard.foreign.vit import VIT_FORM

# A folder is opened by the first form that matches it.
FORMS: dict[str, Form[Any]] = {
    "marian": MARIAN,
    "gpt2": GPT2_FORM,
    "bert": BERT_FORM,
    "vit": VIT_FORM,
    "timm_vit": TIMM_VIT,
    "timm": TIMM,
    "elmo": ELMO_FORM,
}


__all__ = [
    "BERT_FORM",
    "ELMO_FORM",
    "FORMS",
    "GPT2_FORM",
    "MARIAN",
    "TIMM",
    "TIMM_VIT",
    "VIT_FORM",
    "Form",
    "form_of",
    "why_no_form",
]


def form_of(model: str, config: Any) -> Form[Any] | None:
    """The form in which a model of ours is saved, if it has one."""
    return next((form for form in FORMS.values() if form.model == model and not form.lacks(config)), None)


def why_no_form(model: str, config: Any) -> str:
    """Why there is no form for a model, for an error message: what the form lacks, or that nobody else has it."""
    lacks = [form.lacks(config) for form in FORMS.values() if form.model == model]
    return lacks[0] if lacks else f"transformers has no model like {model}"
