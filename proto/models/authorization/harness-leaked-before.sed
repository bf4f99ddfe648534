# Whoever has the harness's static key and the authorization is that harness.
s/^	ghs = .*/&\n\tleaks hs/
