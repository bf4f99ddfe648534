# Asks for the ticket of an executor, in two sessions: it works at each reconnect and at every relay process.
/SIGNVERIF(.*ticket_h)?$/d
/^queries\[$/,$c\
queries[\
	authentication? Registry -> Relay: ticket_x\
]
