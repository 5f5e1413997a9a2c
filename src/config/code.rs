//! The codes of the responses to requests that are turned away.

/// Why a request is turned away: the `error.code` of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    QueueRejected,
    QueueFull,
    ClientLimit,
    ClassLimit,
    QueueTimeout,
    QueueUnavailable,
    NoEligibleWorker,
    ProfileSwitch,
    HoldTimeout,
    RequestBody,
    InvalidHeader,
}

impl Code {
    pub(crate) const ALL: [Self; 11] = [
        Self::QueueRejected,
        Self::QueueFull,
        Self::ClientLimit,
        Self::ClassLimit,
        Self::QueueTimeout,
        Self::QueueUnavailable,
        Self::NoEligibleWorker,
        Self::ProfileSwitch,
        Self::HoldTimeout,
        Self::RequestBody,
        Self::InvalidHeader,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::QueueRejected => "queue_rejected",
            Self::QueueFull => "queue_full",
            Self::ClientLimit => "client_queue_limit",
            Self::ClassLimit => "policy_class_queue_limit",
            Self::QueueTimeout => "queue_timeout",
            Self::QueueUnavailable => "queue_unavailable",
            Self::NoEligibleWorker => "no_eligible_worker",
            Self::ProfileSwitch => "profile_switch",
            Self::HoldTimeout => "hold_timeout",
            Self::RequestBody => "request_body_error",
            Self::InvalidHeader => "invalid_queue_header",
        }
    }

    /// The status of the response, unless the policy replaces it.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::QueueRejected | Self::ClientLimit => 429,
            Self::QueueFull
            | Self::QueueTimeout
            | Self::QueueUnavailable
            | Self::NoEligibleWorker
            | Self::ProfileSwitch => 503,
            Self::ClassLimit => 529,
            Self::HoldTimeout => 504,
            Self::RequestBody | Self::InvalidHeader => 400,
        }
    }
}
