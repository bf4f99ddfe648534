# The same in two sessions: message 1 can be replayed. It costs the executor a question to the registry, no more.
/^queries\[$/,$c\
queries[\
	authentication? Harness -> Executor: payload_1\
]
