//! What CPUID says on the node: its words as the lines of /proc/cpuinfo.

use super::flags::FLAGS;

/// The node's processors.
pub struct Processor {
    /// What they can: [`wire::rank::FromNode::features`].
    pub features: [u64; 5],
    /// Which they are: [`wire::rank::FromNode::identity`].
    pub identity: [u64; 8],
}

impl Processor {
    /// The node has said it.
    pub fn is_known(&self) -> bool {
        self.features.iter().any(|word| *word != 0)
    }

    /// Those of the host's flags that they have, each after a space.
    pub fn common(&self, linux: &str) -> String {
        let has = |flag: &&str| {
            let known = FLAGS.iter().find(|(name, ..)| name == flag);
            known.is_some_and(|(_, word, bit)| self.features[*word] >> bit & 1 != 0)
        };
        let common = linux.split_ascii_whitespace().filter(has);
        common.map(|flag| format!(" {flag}")).collect()
    }

    /// The value of a line, where CPUID decides it.
    pub fn value(&self, line: &str) -> Option<String> {
        if !self.is_known() {
            return None;
        }
        let [family, model, stepping] = signature((self.identity[1] >> 32) as u32);
        match line {
            "vendor_id" => Some(letters(&self.identity[..2], 12)),
            "cpu family" => Some(family.to_string()),
            "model" => Some(model.to_string()),
            "model name" => Some(letters(&self.identity[2..], 48)),
            "stepping" => Some(stepping.to_string()),
            _ => None,
        }
    }
}

/// Family, model and stepping of leaf 1, EAX (AMD APM vol. 3, appendix E.3.2; Intel SDM vol. 2, CPUID).
fn signature(eax: u32) -> [u32; 3] {
    let field = |from: u32, bits: u32| eax >> from & ((1 << bits) - 1);
    let family = match field(8, 4) {
        0xf => 0xf + field(20, 8),
        family => family,
    };
    let model = match family {
        ..6 => field(4, 4),
        _ => field(4, 4) | field(16, 4) << 4,
    };
    [family, model, field(0, 4)]
}

/// The first bytes of registers as a name: up to its first 0, without what is not to be printed or what surrounds it.
fn letters(words: &[u64], len_bytes: usize) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let bytes = bytes.take(len_bytes).take_while(|byte| *byte != 0);
    let printable = bytes
        .map(char::from)
        .filter(|letter| matches!(letter, ' '..='~'));
    printable.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[u8]) -> Vec<u64> {
        let whole = text.chunks_exact(8);
        whole
            .map(|eight| u64::from_le_bytes(eight.try_into().expect("8")))
            .collect()
    }

    fn processor(vendor: &[u8; 12], eax: u32, name: &[u8; 48]) -> Processor {
        let first = [vendor, &eax.to_le_bytes()[..]].concat();
        Processor {
            features: [1, 0, 0, 0, 0],
            identity: [words(&first), words(name)]
                .concat()
                .try_into()
                .expect("8 words"),
        }
    }

    /// Once a program that asked CPUID and one that read the file, as hwloc does both, met two processors.
    #[test]
    fn names_are_as_cpuid_has_them() {
        let mut name = [0; 48];
        let text = b"  Intel(R) Xeon(R) \x01Processor";
        name[..text.len()].copy_from_slice(text);
        let intel = processor(b"GenuineIntel", 0x000c_06f2, &name);
        let said = ["vendor_id", "cpu family", "model", "stepping", "model name"]
            .map(|line| intel.value(line).expect("it decides that"));
        assert_eq!(
            said,
            [
                "GenuineIntel",
                "6",
                "207",
                "2",
                "Intel(R) Xeon(R) Processor"
            ]
        );
        assert_eq!(intel.value("microcode"), None);
    }

    #[test]
    fn each_flag_has_a_place_of_its_own() {
        let mut places: Vec<_> = FLAGS.iter().map(|(_, word, bit)| (word, bit)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), FLAGS.len());
        assert!(FLAGS.iter().all(|(_, word, bit)| *word < 5 && *bit < 64));
    }

    #[test]
    fn families_and_models_have_two_parts() {
        assert_eq!(signature(0x0080_0f12), [23, 1, 2]);
        assert_eq!(signature(0x00b4_0f40), [26, 68, 0]);
        assert_eq!(signature(0x0000_0543), [5, 4, 3]);
    }

    /// What a node says is not trusted: no line breaks, which would be lines of the file.
    #[test]
    fn wrong_words_stay_one_line() {
        let wrong = processor(b"a\nb\0cdefghij", !0, &[b'\n'; 48]);
        assert_eq!(wrong.value("vendor_id").as_deref(), Some("ab"));
        assert_eq!(wrong.value("model name").as_deref(), Some(""));
    }

    #[test]
    fn a_node_that_has_not_said_it_decides_nothing() {
        let silent = Processor {
            features: [0; 5],
            identity: [0; 8],
        };
        assert_eq!(silent.value("vendor_id"), None);
    }
}
