"""Cohere's Python client: rankings by the model `rerank`."""

import cohere
from checks import key, run, url


def rerank():
    client = cohere.ClientV2(api_key=key, base_url=url)
    answer = client.rerank(model="rerank", query="red apple", documents=["a green pear", "a red apple"], top_n=1)
    assert [result.index for result in answer.results] == [1], answer


run(rerank)
