use proptest::prelude::*;

use super::{Aead, AwsLc, RustCrypto};

proptest! {
    #[test]
    fn providers_agree(
        key in any::<[u8; 32]>(),
        counter in any::<u64>(),
        ad in proptest::collection::vec(any::<u8>(), 0..64),
        plain in proptest::collection::vec(any::<u8>(), 0..4096),
    ) {
        let (fast, portable) = (AwsLc::new(&key), RustCrypto::new(&key));
        let (mut a, mut b) = (plain.clone(), plain.clone());
        let tag_a = fast.seal(counter, &ad, &mut a).unwrap();
        let tag_b = portable.seal(counter, &ad, &mut b).unwrap();
        prop_assert_eq!((&a, tag_a), (&b, tag_b));
        portable.open(counter, &ad, &mut a, &tag_a).unwrap();
        fast.open(counter, &ad, &mut b, &tag_b).unwrap();
        prop_assert_eq!(&a, &plain);
        prop_assert_eq!(&b, &plain);
    }
}

fn refuses_changes<A: Aead>() {
    let aead = A::new(&[7; 32]);
    let mut sealed = *b"nine byte";
    let tag = aead.seal(3, b"ad", &mut sealed).unwrap();
    let open = |counter, ad: &[u8], mut text: [u8; 9], tag| aead.open(counter, ad, &mut text, &tag).is_ok();
    assert!(open(3, b"ad", sealed, tag));
    assert!(!open(4, b"ad", sealed, tag));
    assert!(!open(3, b"aD", sealed, tag));
    for index in 0..9 {
        let mut forged = sealed;
        forged[index] ^= 0x40;
        assert!(!open(3, b"ad", forged, tag));
    }
    for index in 0..16 {
        let mut forged = tag;
        forged[index] ^= 0x01;
        assert!(!open(3, b"ad", sealed, forged));
    }
}

#[test]
fn both_refuse_every_change() {
    refuses_changes::<AwsLc>();
    refuses_changes::<RustCrypto>();
}
