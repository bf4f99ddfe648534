# Message 2 without its ephemeral Diffie-Hellman: recordings open once ML-KEM falls and the static keys leak.
/_kem = PUBKEY/s/PUBKEY(/PUBKEY[weak from phase 1](/
s/ck_ee = HKDF(ck_2, DH_KEX(gxe_dh, he_dh), nil)/ck_ee = HKDF(ck_2, nil, nil)/
s/x_ck_ee = HKDF(x_ck_2, DH_KEX(ghe_dh, xe_dh), nil)/x_ck_ee = HKDF(x_ck_2, nil, nil)/
s/^queries\[$/phase[1]\
\
principal Harness[leaks hs_dh, hs_kem]\
principal Executor[leaks xs_dh, xs_kem]\
\
&/
