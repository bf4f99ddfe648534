# Recorded today; later X25519 falls, and all static keys leak.
/_dh = PUBKEY/s/PUBKEY(/PUBKEY[weak from phase 1](/
s/^queries\[$/phase[1]\n\nprincipal Harness[leaks hs_dh, hs_kem]\nprincipal Executor[leaks xs_dh, xs_kem]\n\n&/
