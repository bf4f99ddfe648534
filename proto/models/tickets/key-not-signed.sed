# The harness's key is not signed: whoever has the URL names a key of his own.
s/CONCAT(environment, registration), key, jti_h/CONCAT(environment, registration), jti_h/
s/^	_ = SIGNVERIF(verification_key, CONCAT(role_h.*/&\n\tbound_to = HASH(key)/
