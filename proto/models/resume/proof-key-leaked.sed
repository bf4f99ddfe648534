# The key of the proofs is out: resumes can be forged, and records stay secret and authentic.
s/^	x_proof_key = .*/&\n\tleaks x_proof_key/
