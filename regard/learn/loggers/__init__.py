"""Where else the numbers of a training go, beside log.jsonl: TensorBoard, Trackio, Weights & Biases, MLflow."""
