"""Speech and its transcript with OpenAI's Python client."""

from checks import key, run, url
from openai import OpenAI

client = OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)


def speak():
    return client.audio.speech.create(model="speech", voice="alloy", input="hello there").read()


def speech():
    assert speak()[:3] == b"ID3"


def transcription():
    answer = client.audio.transcriptions.create(model="transcript", file=("hello.mp3", speak()))
    assert answer.text.startswith("I heard hello.mp3"), answer


def streamed_transcription():
    events = client.audio.transcriptions.create(model="transcript", file=("hello.mp3", speak()), stream=True)
    text = "".join(event.delta for event in events if event.type == "transcript.text.delta")
    assert text.startswith("I heard hello.mp3"), text


def translation():
    answer = client.audio.translations.create(model="transcript", file=("hello.mp3", speak()))
    assert answer.text.startswith("In English: I heard hello.mp3"), answer


run(speech, transcription, streamed_transcription, translation)
