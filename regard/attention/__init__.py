"""The one idea and nothing else: a query looks at a memory.

attend = Attend(Additive(query_dim, key_dim))
memory = attend.remember(states, mask=mask)      # once
read = attend(query, memory)                     # as often as you like

read = attention(query, keys, values, mask=mask) # the same as a function
"""

from regard.attention.attend import Attend, Look
from regard.attention.functional import attention, look
from regard.attention.heads import MultiHead
from regard.attention.memory import BufferedMemory, GrowingMemory, Memory
from regard.attention.packing import Packing
from regard.attention.question import Question, TemperedQuestion
from regard.attention.record import Trace, record
from regard.attention.score import (
    KEY_SCORES,
    SCORES,
    Additive,
    Cosine,
    Dot,
    General,
    Location,
    ScaledDot,
    Score,
    build_score,
    check_score,
)
from regard.attention.trace import trace
from regard.attention.weigh import WAYS, Hard, LocalMonotonic, LocalPredictive, Weigh, build_weigh

__all__ = [
    "KEY_SCORES",
    "SCORES",
    "WAYS",
    "Additive",
    "Attend",
    "BufferedMemory",
    "Cosine",
    "Dot",
    "General",
    "GrowingMemory",
    "Hard",
    "LocalMonotonic",
    "LocalPredictive",
    "Location",
    "Look",
    "Memory",
    "MultiHead",
    "Packing",
    "Question",
    "ScaledDot",
    "Score",
    "TemperedQuestion",
    "Trace",
    "Weigh",
    "attention",
    "build_score",
    "build_weigh",
    "check_score",
    "look",
    "record",
    "trace",
]
