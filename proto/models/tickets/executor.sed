# Asks for the ticket of an executor, in one session: it cannot be forged.
/SIGNVERIF(.*ticket_h)?$/d
/^queries\[$/,$c\
queries[\
	authentication? Registry -> Relay: ticket_x\
]
