package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func entries(uids ...string) map[string]time.Time {
	m := map[string]time.Time{}
	for _, uid := range uids {
		m[uid] = noon
	}
	return m
}

func take(t *testing.T, j *Journal, known ...string) Taken {
	t.Helper()
	found, err := j.TakeOver(t.Context(), entries(known...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func write(t *testing.T, j *Journal, uids ...string) {
	t.Helper()
	if err := j.Write(t.Context(), entries(uids...), nil); err != nil {
		t.Fatal(err)
	}
}

// What is stored is known to be, and nothing else, whatever the store answers; a lost
// answer costs nothing, an edit by hand is overruled.
func TestLostAnswers(t *testing.T) {
	boom := errors.New("the connection broke")
	store := new(Memory)
	j := New(store, "j")
	take(t, j)
	write(t, j, "a")
	for _, done := range []bool{false, true} {
		store.Set(func(m *Memory) { m.Fail = func(Segment) (bool, error) { return done, boom } })
		uid := fmt.Sprint("b-", done)
		if err := j.Write(t.Context(), entries(uid), nil); !errors.Is(err, boom) || j.Has(uid) {
			t.Errorf("done %t: %v, has %t", done, err, j.Has(uid))
		}
		store.Set(func(m *Memory) { m.Fail = nil })
		write(t, j, uid)
		if !j.Has(uid) || !j.Has("a") {
			t.Error("not stored")
		}
	}
	for name, edit := range map[string]func(*Memory){
		"deleted": func(m *Memory) { delete(m.segments, "j") },
		"emptied": func(m *Memory) {
			s := m.segments["j"]
			s.Entries, s.Version = nil, "by hand"
			m.segments["j"] = s
		},
	} {
		store.Set(edit)
		write(t, j, name)
		found, err := New(store, "j").Read(t.Context())
		if err != nil || found.Entries["a"].IsZero() || found.Entries[name].IsZero() {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

// A head that is full is sealed; a journal that is full refuses, and takes more once
// something was forgotten. Segments that nobody names are removed.
func TestSegments(t *testing.T) {
	store := new(Memory)
	j := New(store, "j")
	j.most = 100
	take(t, j)
	var all []string
	for i := 0; ; i++ {
		uid := fmt.Sprintf("uid-%06d", i)
		err := j.Write(t.Context(), entries(uid), nil)
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil || i > 10_000 {
			t.Fatal(i, err)
		}
		all = append(all, uid)
	}
	if len(store.segments) != maxSegments+1 || len(all) < maxSegments*5 {
		t.Fatalf("%d segments with %d entries", len(store.segments), len(all))
	}
	for name, s := range store.segments {
		size := 0
		for uid := range s.Entries {
			size += len(uid) + 1
		}
		if size > j.most {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
	store.segments["j-stray"] = Segment{Name: "j-stray", Version: "0", Entries: entries("x")}
	next := New(store, "j")
	if found := take(t, next); len(found.Entries) != len(all) || len(store.segments) != maxSegments+1 {
		t.Errorf("%d entries of %d, %d segments", len(found.Entries), len(all), len(store.segments))
	}
	if err := next.Write(t.Context(), nil, all[:len(all)/2]); err != nil {
		t.Fatal(err)
	}
	if n := len(store.segments); n > maxSegments/2+2 || next.Has(all[0]) || !next.Has(all[len(all)-1]) {
		t.Errorf("%d segments after half was forgotten", n)
	}
	write(t, next, "one more")
	store.Set(func(m *Memory) { delete(m.segments, m.segments["j"].Sealed[0]) })
	if found := take(t, New(store, "j")); len(found.Lost) != 1 {
		t.Errorf("lost: %v", found.Lost)
	}
}

// Whatever fails, whoever writes: the next process finds every entry whose write was acknowledged.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := new(Memory)
		store.Fail = func(Segment) (bool, error) {
			switch rapid.IntRange(0, 9).Draw(t, "fails") {
			case 0:
				return false, errors.New("refused")
			case 1:
				return true, errors.New("lost")
			}
			return false, nil
		}
		j := New(store, "j")
		j.most = 60
		stored, forgotten := map[string]bool{}, map[string]bool{}
		taken := false
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch uid := fmt.Sprintf("uid-%d", i); {
			case !taken || rapid.IntRange(0, 5).Draw(t, "restart") == 0:
				j = New(store, "j")
				j.most = 60
				found, err := j.TakeOver(t.Context(), nil)
				if taken = err == nil; !taken {
					continue
				}
				for uid := range stored {
					if _, ok := found.Entries[uid]; !ok || !j.Has(uid) {
						t.Fatalf("%s is lost", uid)
					}
				}
			case rapid.IntRange(0, 3).Draw(t, "forget") == 0 && len(stored) > 0:
				old := slices.Sorted(maps.Keys(stored))[0]
				delete(stored, old) // perhaps
				if j.Write(t.Context(), nil, []string{old}) == nil {
					forgotten[old] = true
				}
			default:
				if j.Write(t.Context(), entries(uid), nil) == nil {
					stored[uid] = true
				} else if j.Has(uid) {
					t.Fatalf("%s counts as stored", uid)
				}
			}
		}
	})
}

// What is encoded is decoded, the time rounded up to the minute.
func TestEncoding(t *testing.T) {
	m := &configMaps{name: "j"}
	rapid.Check(t, func(t *rapid.T) {
		s := Segment{Name: "j", Version: "7", Token: "me", Sealed: []string{"j-1", "j-2"}, Entries: map[string]time.Time{}}
		for uid := range rapid.MapOf(rapid.StringN(1, 40, -1), rapid.Bool()).Draw(t, "uids") {
			s.Entries[uid] = noon.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "at")))
		}
		got, err := decode(m.encode(s))
		if err != nil || got.Name != s.Name || got.Version != s.Version || got.Token != s.Token || !slices.Equal(got.Sealed, s.Sealed) || len(got.Entries) != len(s.Entries) {
			t.Fatalf("%+v, %v, want %+v", got, err, s)
		}
		for uid, at := range s.Entries {
			if after := got.Entries[uid].Sub(at); after < 0 || after >= time.Minute {
				t.Fatalf("%q: %v later", uid, after)
			}
		}
	})
}

// A segment that is not understood is an error, never an empty one.
func FuzzDecode(f *testing.F) {
	f.Add("20260701T1200Z", "a\nb\n", "j-1")
	f.Add("noon", "%zz", "")
	f.Fuzz(func(t *testing.T, key, value, sealed string) {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{sealedKey: sealed}}, Data: map[string]string{key: value}}
		s, err := decode(o)
		if _, bad := time.Parse(minute, key); bad != nil && err == nil {
			t.Fatalf("%q counts as a minute: %+v", key, s)
		}
		if err == nil && len(s.Entries) == 0 && strings.TrimSpace(value) != "" {
			t.Fatalf("%q has no UID", value)
		}
	})
}
