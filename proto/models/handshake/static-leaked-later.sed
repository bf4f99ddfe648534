# All static keys become known once the stream is over.
s/^queries\[$/phase[1]\n\nprincipal Harness[leaks hs_dh, hs_kem]\nprincipal Executor[leaks xs_dh, xs_kem]\n\n&/
