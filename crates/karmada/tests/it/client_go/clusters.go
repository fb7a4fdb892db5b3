// Lists clusters as programs of others do: by the dynamic client, and by a typed client built the way generated
// clientsets are.
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var groupVersion = schema.GroupVersion{Group: "cluster.karmada.io", Version: "v1alpha1"}

// Cluster has the fields this program reads.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		SyncMode string `json:"syncMode"`
	} `json:"spec"`
}

type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

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
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(groupVersion, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	own := rest.CopyConfig(config)
	own.APIPath = "/apis"
	own.GroupVersion = &groupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	must("make the typed client", err)
	list := &ClusterList{}
	options := metav1.ListOptions{}
	must("list by the typed client", client.Get().Resource("clusters").
		VersionedParams(&options, runtime.NewParameterCodec(scheme)).Do(ctx).Into(list))
	for _, item := range list.Items {
		if item.Spec.SyncMode != "Push" {
			must("read the mode", fmt.Errorf("%s has the mode %q", item.Name, item.Spec.SyncMode))
		}
		names = append(names, item.Name)
	}
	return names
}
