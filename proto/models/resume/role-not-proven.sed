# A resume without a role can be reflected: the harness takes its own for the answer.
/MAC/s/role_[a-z]*, stream/stream/
