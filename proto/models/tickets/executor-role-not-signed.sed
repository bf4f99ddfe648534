# Role and audience are not signed: a harness's ticket passes for one of an executor.
s/CONCAT(role_[a-z]*, [a-z_]*, \(CONCAT(environment, registration), [a-z]*, jti_[hx]\))/CONCAT(\1)/
s/^Registry -> Relay: registration/principal Registry[key_x = HASH(nil)]\nRegistry -> Relay: key_x, registration/
s/registration), nil, jti_x), ticket_x)?/registration), key_x, jti_x), ticket_x)?/
s/registration), nil, jti_x))/registration), HASH(nil), jti_x))/
/^queries\[$/,$c\
queries[\
	authentication? Registry -> Relay: ticket_x\
]
