# Forward secrecy rests on the ephemeral keys: here they were kept.
s/^queries\[$/phase[1]\n\nprincipal Harness[leaks hs_dh, hs_kem]\nprincipal Executor[leaks xs_dh, xs_kem]\nprincipal Harness[leaks he_dh, he_kem]\nprincipal Executor[leaks xe_dh]\n\n&/
