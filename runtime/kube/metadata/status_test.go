package metadata

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/policy/gc"
)

func notFound(kind, group, name string) *metav1.Status {
	return &metav1.Status{Status: "Failure", Message: kind + ` "` + name + `" not found`, Reason: "NotFound", Code: http.StatusNotFound,
		Details: &metav1.StatusDetails{Name: name, Group: group, Kind: kind}}
}

// The one word that proves an absence, and all that looks like it.
func TestNamesAbsent(t *testing.T) {
	x := gc.Coordinates{APIVersion: "example.com/v1", Kind: "CronTab", Resource: "crontabs", Namespace: "n", Name: "x"}
	with := func(change func(*metav1.Status)) *metav1.Status {
		s := notFound("crontabs", "example.com", "x")
		change(s)
		return s
	}
	for name, test := range map[string]struct {
		status *metav1.Status
		want   bool
	}{
		"by resource":      {notFound("crontabs", "example.com", "x"), true},
		"by kind":          {notFound("CronTab", "example.com", "x"), true},
		"another name":     {notFound("crontabs", "example.com", "y"), false},
		"another group":    {notFound("crontabs", "example.org", "x"), false},
		"no group":         {notFound("crontabs", "", "x"), false},
		"another resource": {notFound("namespaces", "example.com", "x"), false},
		"no details":       {with(func(s *metav1.Status) { s.Details = nil }), false},
		"empty details":    {with(func(s *metav1.Status) { s.Details = &metav1.StatusDetails{} }), false},
		"another reason":   {with(func(s *metav1.Status) { s.Reason = "Forbidden" }), false},
		"another code":     {with(func(s *metav1.Status) { s.Code = 403 }), false},
		"a success":        {with(func(s *metav1.Status) { s.Status = "Success" }), false},
		"of a webhook":     {with(func(s *metav1.Status) { s.Message = `admission webhook "w" denied the request: gone` }), false},
		"of a policy":      {with(func(s *metav1.Status) { s.Message = `crontabs "x" is forbidden: gone` }), false},
	} {
		s, err := protoStatus(marshal(t, test.status))
		if err != nil {
			t.Fatal(err)
		}
		if got := namesAbsent(s, x); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
