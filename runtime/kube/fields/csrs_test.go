package fields_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
)

// certificate in PEM that expires at a moment.
func certificate(t testing.TB, notAfter time.Time) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "c"}, NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestRequest: what is read of a request is what it contains.
func TestRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metadata(t)}
		r.Spec = certificatesv1.CertificateSigningRequestSpec{SignerName: rapid.SampledFrom([]string{"", "example.com/serving"}).Draw(t, "signer"), Request: []byte("r"), Username: "u"}
		want := csrs.Request{Signer: r.Spec.SignerName, Created: r.CreationTimestamp.Time}
		for range rapid.IntRange(0, 4).Draw(t, "conditions") {
			kind := rapid.SampledFrom([]certificatesv1.RequestConditionType{"Approved", "Denied", "Failed", "Other"}).Draw(t, "type")
			c := certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "r", LastUpdateTime: someTime(t), LastTransitionTime: some}
			r.Status.Conditions = append(r.Status.Conditions, c)
		}
		want.Handled = len(r.Status.Conditions) > 0
		want.Approved, want.Denied, want.Failed = earliest(r, "Approved"), earliest(r, "Denied"), earliest(r, "Failed")
		if rapid.Bool().Draw(t, "issued") {
			r.Status.Certificate, want.Issued = []byte("garbled"), true
		}
		if diff := cmp.Diff(any(want), read(t, r, fields.Request)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func earliest(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) (of csrs.Condition) {
	for _, c := range r.Status.Conditions {
		if c.Type != kind {
			continue
		}
		of.Is = true
		if at := c.LastUpdateTime.Time; !at.IsZero() && (of.Since.IsZero() || at.Before(of.Since)) {
			of.Since = at
		}
	}
	return of
}

// TestCertificates: the end of the first certificate is read, and what cannot be read is
// neither an error nor an end.
func TestCertificates(t *testing.T) {
	end := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	good, later := certificate(t, end), certificate(t, end.AddDate(1, 0, 0))
	block, _ := pem.Decode(good)
	second, _ := pem.Decode(later)
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for _, test := range []struct {
		name        string
		certificate []byte
		issued      bool
		want        time.Time
	}{
		{"none", nil, false, time.Time{}},
		{"empty", []byte{}, false, time.Time{}},
		{"good", good, true, end},
		{"text before it", append([]byte("Issuer: somebody\n"), good...), true, end},
		{"a chain", append(bytes.Clone(good), later...), true, end},
		{"a chain the other way", append(bytes.Clone(later), good...), true, end.AddDate(1, 0, 0)},
		{"two in one block", encode("CERTIFICATE", append(bytes.Clone(block.Bytes), second.Bytes...)), true, end},
		{"another label, as the peer reads it", encode("TRUSTED CERTIFICATE", block.Bytes), true, end},
		{"no PEM", []byte("garbled"), true, time.Time{}},
		{"DER without PEM", block.Bytes, true, time.Time{}},
		{"cut short", good[:len(good)/2], true, time.Time{}},
		{"garbled in PEM", encode("CERTIFICATE", []byte("garbled")), true, time.Time{}},
		{"cut short in PEM", encode("CERTIFICATE", block.Bytes[:len(block.Bytes)-3]), true, time.Time{}},
		{"nothing in PEM", encode("CERTIFICATE", nil), true, time.Time{}},
		{"a garbled one first", append(encode("CERTIFICATE", []byte("garbled")), good...), true, time.Time{}},
		{"a key first", append(encode("PRIVATE KEY", []byte("key")), good...), true, time.Time{}},
	} {
		r := &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{Certificate: test.certificate}}
		if got := read(t, r, fields.Request).(csrs.Request); got.Issued != test.issued || !got.NotAfter.Equal(test.want) {
			t.Errorf("%s: issued %v, not after %v; want %v", test.name, got.Issued, got.NotAfter, test.want)
		}
	}
}

// TestPodRequest: both versions are read alike.
func TestPodRequest(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "r", Namespace: "n", CreationTimestamp: some}
	for _, o := range []marshaler{
		&certificatesv1.PodCertificateRequest{ObjectMeta: meta}, &certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta},
	} {
		if got := read(t, o, fields.PodRequest).(csrs.PodRequest); !got.Created.Equal(some.Time) {
			t.Errorf("created %v", got.Created)
		}
	}
}

func FuzzRequest(f *testing.F) {
	message, err := (&certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: some},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/serving"},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Conditions:  []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True", LastUpdateTime: some}},
			Certificate: certificate(f, some.Time),
		},
	}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.Request, func(t *testing.T, got any, message []byte) {
		var r certificatesv1.CertificateSigningRequest
		if !written(&r, message) {
			return
		}
		have := got.(csrs.Request)
		if have.Signer != r.Spec.SignerName || have.Issued != (len(r.Status.Certificate) > 0) || have.Handled != (len(r.Status.Conditions) > 0) {
			t.Errorf("%+v is read of %+v", have, r)
		}
		if !have.Issued && !have.NotAfter.IsZero() {
			t.Error("no certificate has an end")
		}
	})
}

func FuzzPodRequest(f *testing.F) {
	message, err := (&certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: some}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.PodRequest, func(t *testing.T, got any, message []byte) {
		var r certificatesv1.PodCertificateRequest
		if have := got.(csrs.PodRequest); written(&r, message) && !have.Created.Equal(r.CreationTimestamp.Time) {
			t.Errorf("created %v, not %v", have.Created, r.CreationTimestamp)
		}
	})
}
