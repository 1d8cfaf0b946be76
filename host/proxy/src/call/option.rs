//! Socket options whose value holds pointers, for setsockopt(2) and getsockopt(2).
//!
//! Linux would follow them unchecked. For the rank such an option does not exist (ENOPROTOOPT), like one that Linux was
//! built without; so does every option of a protocol that is not listed.

/// A number that no protocol has an option for.
pub const NO_SUCH_OPTION: u64 = -1i64 as u64;

// uapi/linux/if_packet.h: a classic filter program with PACKET_FANOUT_CBPF.
const PACKET_FANOUT_DATA: i32 = 22;
// uapi/linux/sctp.h: struct sctp_getaddrs_old.
const SCTP_SOCKOPT_CONNECTX3: i32 = 111;
// Tables of packet filters are replaced together with counters that lie elsewhere: IPT_SO_SET_REPLACE (for IPv6 as well),
// ARPT_SO_SET_REPLACE, and from EBT_SO_SET_ENTRIES to EBT_SO_GET_INIT_ENTRIES (uapi/linux/netfilter*).
const IPT_SO_SET_REPLACE: i32 = 64;
const ARPT_SO_SET_REPLACE: i32 = 96;
const EBT_SO_SET_ENTRIES: i32 = 128;
const EBT_SO_GET_INIT_ENTRIES: i32 = 131;

/// What Linux is given for an option: itself when its value is flat.
#[must_use]
pub fn visible(level: u64, option: u64) -> u64 {
    if is_flat(level as i32, option as i32) {
        option
    } else {
        NO_SUCH_OPTION
    }
}

fn is_flat(level: i32, option: i32) -> bool {
    match level {
        // struct sock_fprog points to its instructions.
        libc::SOL_SOCKET => !matches!(
            option,
            libc::SO_ATTACH_FILTER | libc::SO_ATTACH_REUSEPORT_CBPF
        ),
        libc::IPPROTO_IP => !matches!(
            option,
            IPT_SO_SET_REPLACE | ARPT_SO_SET_REPLACE | EBT_SO_SET_ENTRIES..=EBT_SO_GET_INIT_ENTRIES
        ),
        libc::IPPROTO_IPV6 => option != IPT_SO_SET_REPLACE,
        // struct tcp_zerocopy_receive names pages to replace.
        libc::IPPROTO_TCP => option != libc::TCP_ZEROCOPY_RECEIVE,
        libc::IPPROTO_SCTP => option != SCTP_SOCKOPT_CONNECTX3,
        libc::SOL_PACKET => option != PACKET_FANOUT_DATA,
        libc::IPPROTO_UDP
        | libc::IPPROTO_DCCP
        | libc::IPPROTO_ICMPV6
        | libc::IPPROTO_UDPLITE
        | libc::IPPROTO_RAW
        | libc::SOL_NETLINK
        | libc::SOL_ALG
        | libc::SOL_TLS => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_options_are_visible() {
        for (level, option) in [
            (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            (libc::IPPROTO_IP, libc::IP_TOS),
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            (libc::IPPROTO_UDP, libc::UDP_CORK),
            (libc::SOL_NETLINK, libc::NETLINK_EXT_ACK),
        ] {
            assert_eq!(visible(level as u64, option as u64), option as u64);
        }
    }

    #[test]
    fn pointers_in_values_are_not() {
        const SOL_RDS: i32 = 276;
        for (level, option) in [
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
            (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF),
            (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE),
            (libc::IPPROTO_IP, 64),
            (libc::IPPROTO_IP, 96),
            (libc::IPPROTO_IP, 128),
            (libc::IPPROTO_IP, 131),
            (libc::IPPROTO_IPV6, 64),
            (libc::IPPROTO_SCTP, 111),
            (libc::SOL_PACKET, 22),
            (libc::SOL_XDP, libc::XDP_UMEM_REG),
            (SOL_RDS, 2),
        ] {
            assert_eq!(visible(level as u64, option as u64), NO_SUCH_OPTION);
            // Linux reads 32 bits.
            assert_eq!(
                visible(level as u64, 1 << 32 | option as u64),
                NO_SUCH_OPTION
            );
        }
    }
}
