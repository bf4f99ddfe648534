//! Unmasking, in place or while the payload moves to the front.

/// Bytes that are unmasked at once; the compiler turns a block into vector instructions.
const BLOCK: usize = 64;

/// Unmasks the `len` bytes at `from` and puts them at `to`. The two may overlap as long as `to <= from`.
pub fn unmask(buffer: &mut [u8], from: usize, to: usize, len: usize, mask: [u8; 4]) {
    debug_assert!(to <= from);
    if mask == [0; 4] {
        if from != to {
            buffer.copy_within(from..from + len, to);
        }
        return;
    }
    if from == to {
        in_place(&mut buffer[from..from + len], mask);
    } else {
        moving(buffer, from, to, len, mask);
    }
}

fn in_place(data: &mut [u8], mask: [u8; 4]) {
    let wide = widen(mask);
    let mut blocks = data.chunks_exact_mut(BLOCK);
    for block in &mut blocks {
        for (byte, mask) in block.iter_mut().zip(&wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in blocks.into_remainder().iter_mut().zip(&wide) {
        *byte ^= mask;
    }
}

/// Front to back through a block of its own, so that an overlap is never read after it was written.
fn moving(buffer: &mut [u8], from: usize, to: usize, len: usize, mask: [u8; 4]) {
    let wide = widen(mask);
    let mut block = [0u8; BLOCK];
    let whole = len - len % BLOCK;
    let mut done = 0;
    while done < whole {
        block.copy_from_slice(&buffer[from + done..from + done + BLOCK]);
        for (byte, mask) in block.iter_mut().zip(&wide) {
            *byte ^= mask;
        }
        buffer[to + done..to + done + BLOCK].copy_from_slice(&block);
        done += BLOCK;
    }
    for index in whole..len {
        buffer[to + index] = buffer[from + index] ^ wide[index - whole];
    }
}

fn widen(mask: [u8; 4]) -> [u8; BLOCK] {
    let mut wide = [0; BLOCK];
    for (index, byte) in wide.iter_mut().enumerate() {
        *byte = mask[index % 4];
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::unmask;

    #[test]
    fn every_length_and_shift_agrees_with_the_definition() {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        for len in (0..200).chain([4096, 4097]) {
            for shift in [0, 1, 4, 6, 8, 63, 64, 65, 300] {
                let plain: Vec<u8> = (0..=250u8).cycle().step_by(7).take(len).collect();
                let mut buffer = vec![0xee; shift];
                buffer.extend(plain.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]));
                unmask(&mut buffer, shift, 0, len, mask);
                assert_eq!(&buffer[..len], &plain[..], "len {len} shift {shift}");
            }
        }
    }

    #[test]
    fn a_zero_mask_still_moves() {
        let mut buffer = b"xxxxpayload".to_vec();
        unmask(&mut buffer, 4, 0, 7, [0; 4]);
        assert_eq!(&buffer[..7], b"payload");
    }
}
