"""The ops of branches and loops in TensorFlow 1.

branch   Switch -> ... -> Merge        (_SwitchN, where TensorFlow has lowered a tf.switch_case)
loop     Enter -> Merge -> Switch -> ... -> NextIteration -> Merge;  Switch -> Exit
"""

from __future__ import annotations

SWITCHES = frozenset(["Switch", "RefSwitch"])
MERGES = frozenset(["Merge", "RefMerge"])
ENTERS = frozenset(["Enter", "RefEnter"])
EXITS = frozenset(["Exit", "RefExit"])
BACK_EDGE_SOURCES = frozenset(["NextIteration", "RefNextIteration"])
"""What leads back to the start of a loop: the only legal cycles of a GraphDef."""
INTO_CONTROL_FLOW = SWITCHES | ENTERS | {"_SwitchN"}
OUT_OF_CONTROL_FLOW = MERGES | EXITS
LOOPS = ENTERS | EXITS | BACK_EDGE_SOURCES | {"LoopCond"}
"""The ops that only loops have."""
CONTROL_FLOW = INTO_CONTROL_FLOW | OUT_OF_CONTROL_FLOW | LOOPS
