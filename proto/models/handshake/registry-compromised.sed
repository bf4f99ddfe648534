# No pins: both ends believe the registry about the other's keys, and the attacker is the registry.
s/^Executor -> Harness: \[gxs_dh\].*/Executor -> Harness: gxs_dh, gxs_kem/
s/^Harness -> Executor: \[ghs_dh\].*/Harness -> Executor: ghs_dh, ghs_kem/
