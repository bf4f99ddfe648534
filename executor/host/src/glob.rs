//! Patterns with `*` for any run and `?` for any one, of variables' names and of hosts.

/// Matches with one point to go back to, the last `*`: linear in memory, and at most quadratic in time.
pub(crate) fn matches<T: Copy + PartialEq + From<u8>>(pattern: &[T], name: &[T]) -> bool {
    let (any_run, any_one) = (T::from(b'*'), T::from(b'?'));
    let (mut at, mut of) = (0, 0);
    let mut star = None;
    while of < name.len() {
        match pattern.get(at) {
            Some(&one) if one == any_run => {
                star = Some((at, of));
                at += 1;
            }
            Some(&one) if one == any_one || one == name[of] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((star_at, star_of)) = star else { return false };
                star = Some((star_at, star_of + 1));
                at = star_at + 1;
                of = star_of + 1;
            }
        }
    }
    pattern[at..].iter().all(|&rest| rest == any_run)
}
