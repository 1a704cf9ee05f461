package csrs

import "time"

// Request is what the collector wants to know of a CertificateSigningRequest beside its
// metadata.
type Request struct {
	Signer  string    // spec.signerName
	Created time.Time // metadata.creationTimestamp
	// Approved, Denied and Failed are the lastUpdateTime of the conditions, and whether
	// there is one, whatever its time.
	Approved, Denied, Failed Condition
	Issued                   bool      // status.certificate is not empty
	NotAfter                 time.Time // of the first certificate in it; zero: it cannot be read
}

// Condition is one of a request.
type Condition struct {
	Is    bool
	Since time.Time // zero: it does not say
}
