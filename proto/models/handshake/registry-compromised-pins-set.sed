# The attacker has the registry and its signing key: it names the static keys of each end to the other. Both ends compare
# the fingerprints with what they have pinned.
s/^Executor -> Harness: \[gxs_dh\], \[gxs_kem\]$/principal Registry[\
	knows private signing_key\
	leaks signing_key\
]\
\
principal Executor[fingerprint_x = HASH(gxs_dh, gxs_kem)]\
principal Harness[fingerprint_h = HASH(ghs_dh, ghs_kem)]\
\
Executor -> Harness: [fingerprint_x]\
Harness -> Executor: [fingerprint_h]\
\
Executor -> Registry: gxs_dh, gxs_kem\
Registry -> Harness: gxs_dh, gxs_kem/
s/^Harness -> Executor: \[ghs_dh\], \[ghs_kem\]$/Harness -> Registry: ghs_dh, ghs_kem\
Registry -> Executor: ghs_dh, ghs_kem\
\
principal Harness[_ = ASSERT(HASH(gxs_dh, gxs_kem), fingerprint_x)?]\
principal Executor[_ = ASSERT(HASH(ghs_dh, ghs_kem), fingerprint_h)?]/
