# Asks for message 1 alone, whose sender the executor believes before it asks the registry: it cannot be forged.
/^queries\[$/,$c\
queries[\
	authentication? Harness -> Executor: payload_1\
]
