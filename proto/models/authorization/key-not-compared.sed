# The registry asks for the authorization alone: whoever learns it gets in with a key of his own.
/ASSERT(x_ghs, ghs)/d
