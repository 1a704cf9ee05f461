package fields_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
)

const identity = "apiserver.kubernetes.io/identity"

// TestLease: what is read of a Lease is what it contains.
func TestLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &coordinationv1.Lease{ObjectMeta: metadata(t)}
		var want leases.Lease
		if rapid.Bool().Draw(t, "holder") {
			want.Holder = rapid.String().Draw(t, "who")
			l.Spec.HolderIdentity = &want.Holder
		}
		duration := rapid.SampledFrom([]int32{0, 15, 40, -1, math.MinInt32, math.MaxInt32}).Draw(t, "duration")
		if rapid.Bool().Draw(t, "lasts") {
			l.Spec.LeaseDurationSeconds = &duration
		} else {
			duration = 0
		}
		if rapid.Bool().Draw(t, "renewed") {
			at := time.UnixMicro(rapid.Int64Range(1, 1<<50).Draw(t, "microseconds")).UTC()
			l.Spec.RenewTime = &metav1.MicroTime{Time: at}
			if want.Expires = at; duration > 0 {
				want.Expires = at.Add(time.Duration(duration) * time.Second)
			}
		}
		l.Spec.AcquireTime = &metav1.MicroTime{Time: some.Time}
		if want.Identity = rapid.Bool().Draw(t, "identity"); want.Identity {
			l.Labels[identity] = rapid.SampledFrom([]string{"", "kube-apiserver"}).Draw(t, "label")
		}
		l.Annotations = map[string]string{identity: "no label"}
		if diff := cmp.Diff(any(want), read(t, l, fields.Lease)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzLease(f *testing.F) {
	holder, duration := "n", int32(40)
	message, err := (&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{identity: "kube-apiserver"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &duration, RenewTime: &metav1.MicroTime{Time: some.Time}},
	}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.Lease, func(t *testing.T, got any, message []byte) {
		var l coordinationv1.Lease
		if !written(&l, message) {
			return
		}
		have := got.(leases.Lease)
		if _, is := l.Labels[identity]; is != have.Identity || have.Expires.IsZero() != (l.Spec.RenewTime == nil || l.Spec.RenewTime.IsZero()) {
			t.Errorf("%+v is read of %+v", have, l)
		}
		if who := l.Spec.HolderIdentity; who != nil && *who != have.Holder {
			t.Errorf("the holder is %q, not %q", have.Holder, *who)
		}
	})
}
