package journal

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	labelKey  = "ebb-agent.github.io/journal"
	tokenKey  = "ebb-agent.github.io/written-by"
	sealedKey = "ebb-agent.github.io/segments"
	aboutKey  = "ebb-agent.github.io/about"

	about = "UIDs of owners that were deleted with the policy Orphan, by the minute. ebb-controller " +
		"keeps them for a day, so that no dependent is deleted because it is seen late. Do not edit it."

	// minute is the layout of a key.
	minute = "20060102T1504Z"

	// requestTimeout bounds a request.
	requestTimeout = 10 * time.Second
)

// configMaps is the journal in the cluster.
type configMaps struct {
	client core.ConfigMapInterface
	name   string
}

// ConfigMaps keeps the journal of this name in ConfigMaps of a namespace, which must
// exist. It needs get, create, update, delete and list there.
func ConfigMaps(config *rest.Config, namespace, name string) (Store, error) {
	c := rest.CopyConfig(config)
	c.Timeout = requestTimeout
	client, err := core.NewForConfig(rest.AddUserAgent(c, "journal"))
	if err != nil {
		return nil, fmt.Errorf("keep a journal of orphaned owners: %w", err)
	}
	return &configMaps{client.ConfigMaps(namespace), name}, nil
}

func (m *configMaps) Get(ctx context.Context, name string) (Segment, error) {
	found, err := m.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Segment{}, ErrNotFound
	}
	if err != nil {
		return Segment{}, err
	}
	return decode(found)
}

func (m *configMaps) Put(ctx context.Context, s Segment) (string, error) {
	o := m.encode(s)
	var stored *corev1.ConfigMap
	var err error
	if s.Version == "" {
		stored, err = m.client.Create(ctx, o, metav1.CreateOptions{})
	} else {
		stored, err = m.client.Update(ctx, o, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), s.Version != "" && apierrors.IsNotFound(err):
		return "", fmt.Errorf("%w: %w", ErrConflict, err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return "", err
	}
	return stored.ResourceVersion, nil
}

func (m *configMaps) Delete(ctx context.Context, name string) error {
	err := m.client.Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (m *configMaps) List(ctx context.Context) (names []string, err error) {
	list, err := m.client.List(ctx, metav1.ListOptions{LabelSelector: labelKey + "=" + m.name})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		if o.Name != m.name {
			names = append(names, o.Name)
		}
	}
	return names, nil
}

func (m *configMaps) encode(s Segment) *corev1.ConfigMap {
	data := map[string]*strings.Builder{}
	for uid, at := range s.Entries {
		// Rounded up to the next minute: no entry looks older than it is.
		key := at.UTC().Add(time.Minute - time.Nanosecond).Truncate(time.Minute).Format(minute)
		if data[key] == nil {
			data[key] = new(strings.Builder)
		}
		data[key].WriteString(url.PathEscape(uid))
		data[key].WriteByte('\n')
	}
	o := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, ResourceVersion: s.Version,
			Labels:      map[string]string{labelKey: m.name, "app.kubernetes.io/name": "ebb-controller"},
			Annotations: map[string]string{aboutKey: about},
		},
		Data: make(map[string]string, len(data)),
	}
	if s.Token != "" {
		o.Annotations[tokenKey] = s.Token
	}
	if len(s.Sealed) > 0 {
		o.Annotations[sealedKey] = strings.Join(s.Sealed, " ")
	}
	for key, lines := range data {
		o.Data[key] = lines.String()
	}
	return o
}

// decode reads a segment. Data that it cannot parse is an error: a later version may have written
// it with a meaning of its own.
func decode(o *corev1.ConfigMap) (Segment, error) {
	s := Segment{
		Name: o.Name, Version: o.ResourceVersion, Token: o.Annotations[tokenKey],
		Sealed: strings.Fields(o.Annotations[sealedKey]), Entries: map[string]time.Time{},
	}
	for key, lines := range o.Data {
		at, err := time.Parse(minute, key)
		if err != nil {
			return Segment{}, fmt.Errorf("config map %s: the key %q is no minute", o.Name, key)
		}
		for line := range strings.FieldsSeq(lines) {
			uid, err := url.PathUnescape(line)
			if err != nil {
				return Segment{}, fmt.Errorf("config map %s: %q is no UID", o.Name, line)
			}
			s.Entries[uid] = at
		}
	}
	return s, nil
}
