# Every ML-KEM private key follows from its public key.
/_kem = PUBKEY/s/PUBKEY(/PUBKEY[weak](/
