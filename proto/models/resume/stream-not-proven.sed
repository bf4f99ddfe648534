# The stream id is in the proof for clarity only: the key belongs to one handshake, whose hash covers the id.
/MAC/s/, stream,/,/
