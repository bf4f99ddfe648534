# Neither half is left.
/_dh = PUBKEY/s/PUBKEY(/PUBKEY[weak](/
/_kem = PUBKEY/s/PUBKEY(/PUBKEY[weak](/
