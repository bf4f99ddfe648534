# Whoever has the signing key makes tickets.
s/^	verification_key = .*/&\n\tleaks signing_key/
