// SPDX-License-Identifier: GPL-2.0
/* Reading what the stack hands over, device memory included, and cutting it into packets. */
#include <linux/dma-direct.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <net/ip.h>

#include "nic.h"

/* Bytes before the payload of a TCP packet, or 0 if it is none. */
unsigned int nic_header_bytes(const struct sk_buff *skb)
{
	unsigned int at = skb_network_offset(skb);

	if (skb->protocol == htons(ETH_P_IP)) {
		if (ip_hdr(skb)->protocol != IPPROTO_TCP || ip_is_fragment(ip_hdr(skb)))
			return 0;
		at += ip_hdrlen(skb);
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		if (ipv6_hdr(skb)->nexthdr != IPPROTO_TCP)
			return 0;
		at += sizeof(struct ipv6hdr);
	} else {
		return 0;
	}
	if (skb_headlen(skb) < at + sizeof(struct tcphdr))
		return 0;
	at += ((const struct tcphdr *)(skb->data + at))->doff * 4;
	return skb_headlen(skb) < at ? 0 : at;
}

/* Where byte `at` of `skb` is, and how many lie behind it in one piece. */
void *nic_bytes_at(const struct sk_buff *skb, unsigned int at, unsigned int *bytes, bool *device)
{
	unsigned int i;

	if (at < skb_headlen(skb)) {
		*bytes = skb_headlen(skb) - at;
		*device = false;
		return skb->data + at;
	}
	at -= skb_headlen(skb);
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		if (at >= skb_frag_size(frag)) {
			at -= skb_frag_size(frag);
			continue;
		}
		*bytes = skb_frag_size(frag) - at;
		*device = skb_frag_is_net_iov(frag);
		if (*device) {
			dma_addr_t dma = page_pool_get_dma_addr_netmem(skb_frag_netmem(frag));

			return phys_to_virt(dma_to_phys(nic_parent, dma)) + skb_frag_off(frag) + at;
		}
		return skb_frag_address(frag) + at;
	}
	return NULL;
}

void nic_copy(const struct sk_buff *skb, unsigned int at, void *to, unsigned int bytes)
{
	while (bytes) {
		unsigned int piece;
		bool device;
		void *from = nic_bytes_at(skb, at, &piece, &device);

		if (WARN_ON_ONCE(!from))
			return;
		piece = min(piece, bytes);
		memcpy(to, from, piece);
		to += piece;
		at += piece;
		bytes -= piece;
	}
}

/*
 * A packet with the headers of `from`, which has its payload from byte `at` on, and room for
 * `bytes` more in its linear part. The payload of the last packet ends where that of `from` does,
 * and only that one carries FIN and PSH.
 */
struct sk_buff *nic_copy_header(struct napi_struct *napi, const struct sk_buff *from,
				unsigned int header, unsigned int at, unsigned int bytes)
{
	unsigned int network = skb_network_offset(from), done = at - header;
	unsigned int left = from->len - at;
	struct sk_buff *skb = napi_alloc_skb(napi, header + bytes);
	unsigned int payload;
	struct tcphdr *tcp;

	if (!skb)
		return NULL;
	nic_copy(from, 0, skb_put(skb, header), header);
	if (!skb_is_gso(from) || !READ_ONCE(nic_segment))
		return skb;
	payload = min_t(unsigned int, left, skb_shinfo(from)->gso_size);
	tcp = (struct tcphdr *)(skb->data + skb_transport_offset(from));
	if (from->protocol == htons(ETH_P_IP)) {
		struct iphdr *ip = (struct iphdr *)(skb->data + network);

		ip->tot_len = htons(header - network + payload);
		ip->id = htons(ntohs(ip->id) + done / skb_shinfo(from)->gso_size);
		ip_send_check(ip);
	} else {
		struct ipv6hdr *ip = (struct ipv6hdr *)(skb->data + network);

		ip->payload_len = htons(header - network - sizeof(*ip) + payload);
	}
	tcp->seq = htonl(ntohl(tcp->seq) + done);
	if (payload < left) {
		tcp->fin = 0;
		tcp->psh = 0;
	}
	if (done)
		tcp->cwr = 0;
	return skb;
}
