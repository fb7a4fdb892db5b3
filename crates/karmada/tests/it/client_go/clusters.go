// Lists clusters as programs of others do: by the dynamic client, and by a typed clientset.
//
// The original's clientset is no module that can be had everywhere, so this one stands in for it. It is made of the same
// parts: types with every field, a scheme, and client-go's own typed client, which is all that generated clients are.
// What goes over the wire is the same, and so is how it is called: ClusterV1alpha1().Clusters().List(ctx, options).
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

var groupVersion = schema.GroupVersion{Group: "cluster.karmada.io", Version: "v1alpha1"}

// Clientset has the clients of all groups.
type Clientset struct {
	clusters rest.Interface
	codec    runtime.ParameterCodec
}

// ClusterV1alpha1Client has the clients of one group version.
type ClusterV1alpha1Client struct{ set *Clientset }

// NewForConfig makes clients as a kubeconfig says.
func NewForConfig(config *rest.Config) (*Clientset, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(groupVersion, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	own := rest.CopyConfig(config)
	own.APIPath = "/apis"
	own.GroupVersion = &groupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, err
	}
	return &Clientset{client, runtime.NewParameterCodec(scheme)}, nil
}

func (set *Clientset) ClusterV1alpha1() *ClusterV1alpha1Client { return &ClusterV1alpha1Client{set} }

func (client *ClusterV1alpha1Client) Clusters() *gentype.ClientWithList[*Cluster, *ClusterList] {
	return gentype.NewClientWithList("clusters", client.set.clusters, client.set.codec, "",
		func() *Cluster { return &Cluster{} }, func() *ClusterList { return &ClusterList{} })
}

type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterSpec   `json:"spec"`
	Status            ClusterStatus `json:"status,omitempty"`
}

type ClusterSpec struct {
	ID                          string            `json:"id,omitempty"`
	SyncMode                    string            `json:"syncMode"`
	APIEndpoint                 string            `json:"apiEndpoint,omitempty"`
	SecretRef                   *SecretReference  `json:"secretRef,omitempty"`
	ImpersonatorSecretRef       *SecretReference  `json:"impersonatorSecretRef,omitempty"`
	InsecureSkipTLSVerification bool              `json:"insecureSkipTLSVerification,omitempty"`
	ProxyURL                    string            `json:"proxyURL,omitempty"`
	ProxyHeader                 map[string]string `json:"proxyHeader,omitempty"`
	Provider                    string            `json:"provider,omitempty"`
	Region                      string            `json:"region,omitempty"`
	Zone                        string            `json:"zone,omitempty"`
	Zones                       []string          `json:"zones,omitempty"`
	Taints                      []corev1.Taint    `json:"taints,omitempty"`
}

type SecretReference struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

type ClusterStatus struct {
	KubernetesVersion string             `json:"kubernetesVersion,omitempty"`
	APIEnablements    []APIEnablement    `json:"apiEnablements,omitempty"`
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
	NodeSummary       *NodeSummary       `json:"nodeSummary,omitempty"`
	ResourceSummary   *ResourceSummary   `json:"resourceSummary,omitempty"`
}

type APIEnablement struct {
	GroupVersion string        `json:"groupVersion"`
	Resources    []APIResource `json:"resources,omitempty"`
}

type APIResource struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type NodeSummary struct {
	TotalNum int32 `json:"totalNum,omitempty"`
	ReadyNum int32 `json:"readyNum,omitempty"`
}

type ResourceSummary struct {
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	Allocating  corev1.ResourceList `json:"allocating,omitempty"`
	Allocated   corev1.ResourceList `json:"allocated,omitempty"`
}

type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// DeepCopyObject is asked for by the scheme; nothing here changes a copy below its metadata.
func (cluster *Cluster) DeepCopyObject() runtime.Object {
	copied := *cluster
	cluster.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

func (list *ClusterList) DeepCopyObject() runtime.Object {
	copied := *list
	copied.Items = append([]Cluster(nil), list.Items...)
	return &copied
}

func listClusters(config *rest.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	show("dynamic", dynamicNames(ctx, config))
	show("typed", typedNames(ctx, config))
}

func show(how string, names []string) {
	sort.Strings(names)
	fmt.Printf("%s: %s\n", how, strings.Join(names, " "))
}

func dynamicNames(ctx context.Context, config *rest.Config) (names []string) {
	client, err := dynamic.NewForConfig(config)
	must("make the dynamic client", err)
	list, err := client.Resource(groupVersion.WithResource("clusters")).List(ctx, metav1.ListOptions{})
	must("list by the dynamic client", err)
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names
}

func typedNames(ctx context.Context, config *rest.Config) (names []string) {
	set, err := NewForConfig(config)
	must("make the clientset", err)
	clusters := set.ClusterV1alpha1().Clusters()
	list, err := clusters.List(ctx, metav1.ListOptions{})
	must("list by the clientset", err)
	for _, item := range list.Items {
		readAndWrite(ctx, clusters, item)
		names = append(names, item.Name)
	}
	return names
}

// readAndWrite: what was listed has its fields, is told to watchers, and can be written back typed.
func readAndWrite(ctx context.Context, clusters *gentype.ClientWithList[*Cluster, *ClusterList], listed Cluster) {
	require := func(what string, holds bool) {
		if !holds {
			must(what, fmt.Errorf("%s is %+v", listed.Name, listed))
		}
	}
	require("read the specification", listed.Spec.SyncMode == "Push" && listed.Spec.APIEndpoint != "" &&
		listed.Spec.SecretRef != nil && listed.Spec.ID != "")
	require("read the status", listed.Status.KubernetesVersion != "" && listed.Status.NodeSummary != nil &&
		len(listed.Status.Conditions) > 0 && len(listed.Status.APIEnablements) > 0)
	one, err := clusters.Get(ctx, listed.Name, metav1.GetOptions{})
	must("get by the clientset", err)
	require("get what was listed", one.UID == listed.UID)
	events, err := clusters.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + listed.Name})
	must("watch by the clientset", err)
	defer events.Stop()
	patch := []byte(`{"metadata":{"annotations":{"example.com/seen":"by a clientset"}}}`)
	patched, err := clusters.Patch(ctx, listed.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	must("patch by the clientset", err)
	for event := range events.ResultChan() {
		told, ok := event.Object.(*Cluster)
		if ok && told.Annotations["example.com/seen"] != "" {
			break
		}
	}
	must("wait for the watch", ctx.Err())
	require("patch by the clientset", patched.Spec.APIEndpoint == listed.Spec.APIEndpoint)
}
