# Recorded today; later both halves fall.
/_dh = PUBKEY/s/PUBKEY(/PUBKEY[weak from phase 1](/
/_kem = PUBKEY/s/PUBKEY(/PUBKEY[weak from phase 1](/
s/^queries\[$/phase[1]\n\n&/
