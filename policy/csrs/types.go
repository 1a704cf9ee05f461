package csrs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Request has the fields of a CertificateSigningRequest that the collector needs beside its
// metadata.
type Request struct {
	Signer  string    // spec.signerName
	Created time.Time // metadata.creationTimestamp
	Handled bool      // it has a condition of any type: it is not pending
	// Approved, Denied and Failed are its conditions of these types, whatever their
	// status.
	Approved, Denied, Failed Condition
	Issued                   bool      // status.certificate is not empty
	NotAfter                 time.Time // of the first certificate in status.certificate; zero: unreadable
}

// Condition is a condition of a request.
type Condition struct {
	Is    bool
	Since time.Time // lastUpdateTime; zero: not set
}

// PodRequest has the fields of a PodCertificateRequest that the collector needs beside its
// metadata.
type PodRequest struct {
	Created time.Time // metadata.creationTimestamp
}

// Config is how long requests are kept.
type Config struct {
	Patience          // for requests to signers that Signers does not name
	Signers  []Signer // the first that names a request's signer counts
	// PodRequests is how long a PodCertificateRequest is kept after it was created, whatever
	// its outcome. Default 15m.
	PodRequests time.Duration
}

// Signer has the times for requests to some signers. Zero fields take the values for all
// other signers.
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

// or returns p with its unset fields taken from other.
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

// with returns the times for requests to a signer.
func (c Config) with(signer string) Patience {
	all := c.or(peers)
	for _, s := range c.Signers {
		if (gc.Patterns{s.Name}).Match(signer) {
			return s.or(all)
		}
	}
	return all
}

// Name is the collector's name.
const Name gc.Collector = "csrs"

// Reasons to delete a request, now or later.
const (
	Pending  gc.Reason = "pending"
	Unissued gc.Reason = "approved_unissued"
	Issued   gc.Reason = "issued"
	// IssuedUnreadable: issued, and the expiry of the certificate is unknown.
	IssuedUnreadable gc.Reason = "issued_certificate_unreadable"
	Denied           gc.Reason = "denied"
	Failed           gc.Reason = "failed"
	Expired          gc.Reason = "certificate_expired"
	PodRequestOld    gc.Reason = "pod_request_old"
)

// Reasons to keep a request.
const (
	Undecided   gc.Reason = "conditions_unknown" // it has conditions, but none that a rule covers
	TimeMissing gc.Reason = "time_missing"       // the time from which a rule counts is not set
	Terminating gc.Reason = "terminating"        // already deleted; finalizers hold it
	Unread      gc.Reason = "type_not_read"      // the type was not listed, or cannot be read now
)
