# The next record's number is not in the proof: the relay makes either end send again from where it likes.
/MAC/s/, \(epoch_[12]\), next_[hx][12]/, \1/
s/^	_ = ASSERT(proof_\([hx][12]\).*/&\n\tfrom_\1 = HASH(next_\1)/
/^	authentication/s/proof_/next_/
