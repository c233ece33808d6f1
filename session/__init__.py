"""The durable side: the journal, the hub for subscribers, and the loops that are told."""

from __future__ import annotations

from ._core import SessionObserver as SessionObserver
from ._errors import JournalCorruptError as JournalCorruptError
from ._errors import JournalSessionError as JournalSessionError
from ._errors import JournalTooNewError as JournalTooNewError
from ._errors import LoopClosedError as LoopClosedError
from ._errors import SessionClosedError as SessionClosedError
from ._errors import SubscriptionLostError as SubscriptionLostError
from ._errors import SubscriptionUseError as SubscriptionUseError
from ._loop import Loop as Loop
from ._loop import Notice as Notice
from ._opening import open_session as open_session
from ._replay import Replay as Replay
from ._replay import Watch as Watch
from ._session import Session as Session
from ._subscription import Delivery as Delivery
from ._subscription import EphemeralEvent as EphemeralEvent
from ._subscription import EventFilter as EventFilter
from ._subscription import LoopScope as LoopScope
from ._subscription import Subscription as Subscription
