package csrs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Request is what the collector wants to know of a CertificateSigningRequest beside its
// metadata.
type Request struct {
	Signer  string    // spec.signerName
	Created time.Time // metadata.creationTimestamp
	Handled bool      // it has a condition, of whatever type: it is not pending
	// Approved, Denied and Failed are its conditions of these types, whatever their
	// status.
	Approved, Denied, Failed Condition
	Issued                   bool      // status.certificate is not empty
	NotAfter                 time.Time // of the first certificate in it; zero: it cannot be read
}

// Condition is one of a request.
type Condition struct {
	Is    bool
	Since time.Time // lastUpdateTime; zero: it does not say
}

// PodRequest is what the collector wants to know of a PodCertificateRequest beside its
// metadata.
type PodRequest struct {
	Created time.Time // metadata.creationTimestamp
}

// Config says how long requests are kept.
type Config struct {
	Patience          // with requests to signers that Signers does not name
	Signers  []Signer // the first that names a request's signer counts
	// PodRequests is how long a PodCertificateRequest is kept after it was created,
	// however it went. Default 15m.
	PodRequests time.Duration
}

// Signer is the patience with the requests to some signers. Fields that are zero are as
// for all others.
type Signer struct {
	Name string // as in spec.signerName; see gc.Patterns
	Patience
}

// Patience is how long requests are kept. Zero fields mean the defaults, which are the
// kube-controller-manager's.
type Patience struct {
	Pending  time.Duration // after its creation, without an answer. Default 24h
	Unissued time.Duration // after its approval, without a certificate. Default 24h
	Issued   time.Duration // after its approval, with a certificate. Default 1h
	Refused  time.Duration // after it was denied, or failed. Default 1h
}

// or takes what is not set from another.
func (p Patience) or(other Patience) Patience {
	set := func(d *time.Duration, other time.Duration) {
		if *d <= 0 {
			*d = other
		}
	}
	set(&p.Pending, other.Pending)
	set(&p.Unissued, other.Unissued)
	set(&p.Issued, other.Issued)
	set(&p.Refused, other.Refused)
	return p
}

// peers are the times of the kube-controller-manager.
var peers = Patience{Pending: 24 * time.Hour, Unissued: 24 * time.Hour, Issued: time.Hour, Refused: time.Hour}

const peersPodRequests = 15 * time.Minute

// with is the patience with requests to a signer.
func (c Config) with(signer string) Patience {
	all := c.or(peers)
	for _, s := range c.Signers {
		if (gc.Patterns{s.Name}).Match(signer) {
			return s.or(all)
		}
	}
	return all
}

// Name is the collector's.
const Name gc.Collector = "csrs"

// Why a request goes, be that later.
const (
	Pending  gc.Reason = "pending"
	Unissued gc.Reason = "approved_unissued"
	Issued   gc.Reason = "issued"
	// IssuedUnreadable: the same, and nobody knows when the certificate expires.
	IssuedUnreadable gc.Reason = "issued_certificate_unreadable"
	Denied           gc.Reason = "denied"
	Failed           gc.Reason = "failed"
	Expired          gc.Reason = "certificate_expired"
	PodRequestOld    gc.Reason = "pod_request_old"
)

// Why a request is kept.
const (
	Undecided   gc.Reason = "conditions_unknown" // it has some, and none that a rule is about
	TimeMissing gc.Reason = "time_missing"       // of what a rule counts from
	Terminating gc.Reason = "terminating"        // deleted already; others hold it
	Unread      gc.Reason = "type_not_read"      // the type was not listed, or cannot be read now
)
