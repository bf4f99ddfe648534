# Every X25519 private key follows from its public key.
/_dh = PUBKEY/s/PUBKEY(/PUBKEY[weak](/
