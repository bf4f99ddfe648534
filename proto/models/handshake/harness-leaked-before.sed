# Whoever has the harness's static keys is the harness, but cannot play the executor to it.
s/^Harness -> Executor: \[ghs_dh\].*/&\n\nprincipal Harness[leaks hs_dh, hs_kem]/
