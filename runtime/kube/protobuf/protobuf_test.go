package protobuf_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// TestTime reads what Kubernetes' own types write.
func TestTime(t *testing.T) {
	for _, want := range []time.Time{{}, time.Unix(0, 0), time.Unix(1e9, 0), time.Unix(-5, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		m := metav1.NewTime(want)
		b, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := protobuf.Time(b); err != nil || !got.Equal(want) {
			t.Errorf("%v is read as %v, %v", want, got, err)
		}
		micro := metav1.NewMicroTime(want)
		if b, err = micro.Marshal(); err != nil {
			t.Fatal(err)
		}
		if got, err := protobuf.Time(b); err != nil || !got.Equal(want) {
			t.Errorf("%v in microseconds is read as %v, %v", want, got, err)
		}
	}
}

func FuzzEach(f *testing.F) {
	f.Add([]byte{8, 1, 18, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var taken []byte
		var number int64
		_ = protobuf.Each(b, func(n protowire.Number, kind protowire.Type, b []byte) int {
			if n == 1 {
				return protobuf.Int(kind, b, &number)
			}
			return protobuf.Take(kind, b, &taken)
		})
		if _, err := protobuf.Time(b); err == nil && len(taken) > len(b) {
			t.Error("more was taken than there is")
		}
	})
}
