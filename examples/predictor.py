"""A small multi-token predictor with the mistakes that devicelint looks for.

It runs on a machine with a GPU and is linted on any. Try:

    devicelint check examples/predictor.py
    devicelint fix examples/predictor.py
"""

import torch
from torch import nn


class PredictionLayer(nn.Module):
    """One predicted position, with a weight that a checkpoint fills later."""

    def __init__(self, width, copies):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Parameter(
            torch.empty(copies, copies * width, dtype=torch.float32),
            requires_grad=False,
        )

    def forward(self, hidden):
        gate = torch.sigmoid(hidden.flatten(1) @ self.mix.t())
        return self.norm((hidden * gate.unsqueeze(-1)).sum(dim=1))


class Predictor(nn.Module):
    """Shares one index buffer and one side stream among its layers."""

    def __init__(self, depth, width, copies, max_tokens, top_k):
        super().__init__()
        self.top_indices = torch.empty(
            max_tokens,
            top_k,
            dtype=torch.int32,
        )
        self.register_buffer("positions", torch.arange(max_tokens), persistent=False)
        self.rates = torch.linspace(0.0, 0.1, depth).tolist()
        self.side_stream = torch.cuda.Stream()
        self.layers = nn.ModuleList(PredictionLayer(width, copies) for _ in range(depth))

    def forward(self, hidden, step):
        return self.layers[step](hidden)
