# In message 1 the harness proves its X25519 half only: with X25519 broken, anybody sends it in the harness's name.
/_dh = PUBKEY/s/PUBKEY(/PUBKEY[weak](/
/^queries\[$/,$c\
queries[\
	authentication? Harness -> Executor: payload_1\
]
