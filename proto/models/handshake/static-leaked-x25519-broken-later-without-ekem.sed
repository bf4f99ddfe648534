# Message 2 without its encapsulation to the ephemeral key: recordings open once X25519 falls and the static keys leak.
/_dh = PUBKEY/s/PUBKEY(/PUBKEY[weak from phase 1](/
s/ck_ekem, k_ekem = HKDF(ck_ss, h_z_e, nil)/ck_ekem, k_ekem = HKDF(ck_ss, HASH(ekem), nil)/
s/x_ck_ekem, x_k_ekem = HKDF(x_ck_ss, z_e, nil)/x_ck_ekem, x_k_ekem = HKDF(x_ck_ss, HASH(ekem), nil)/
s/^	h_z_e = .*//
s/^queries\[$/phase[1]\
\
principal Harness[leaks hs_dh, hs_kem]\
principal Executor[leaks xs_dh, xs_kem]\
\
&/
